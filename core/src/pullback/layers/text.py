"""Layers that turn text into integers, by a vocabulary. Text is on the host: they work there."""

from __future__ import annotations

import hashlib
import math
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool, as_list
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import reject_use
from pullback.layers.layer import Layer
from pullback.layers.options import LayerOptions
from pullback.layers.preprocessing import checked_mode, encoded
from pullback.ops.creation import full
from pullback.shapes import as_int, check_number
from pullback.strings import StringTensor, is_text
from pullback.tensor import Tensor

__all__ = ["IntegerLookup", "StringLookup", "TextVectorization"]

Token: TypeAlias = "str | int"
#: The form in which tokens are returned.
TokenMode: TypeAlias = Literal["int", "one_hot", "multi_hot", "count", "tf_idf"]
_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
#: What changes a text, by its name.
_STANDARDS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "strip_punctuation": lambda text: text.translate(_PUNCTUATION),
    "lower_and_strip_punctuation": lambda text: text.lower().translate(_PUNCTUATION),
}
#: What makes tokens of a text, by its name.
_SPLITS: dict[str, Callable[[str], Iterable[str]]] = {"whitespace": str.split, "character": list}


class Vocabulary:
    """The tokens of a layer in their order; a checkpoint has them."""

    opaque_state = True

    def __init__(
        self, tokens: Iterable[Token] = (), weights: Iterable[float] | None = None
    ) -> None:
        self.tokens = [*tokens]
        #: The weight of each token in vectors of tf-idf.
        self.weights = None if weights is None else [*weights]
        self.places = {token: place for place, token in enumerate(self.tokens)}
        if len(self.places) < len(self.tokens):
            twice = next(t for t, count in Counter(self.tokens).items() if count > 1)
            raise errors.InputValueError(f"the vocabulary has {twice!r} twice")

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The tokens, and their weights."""
        return {"tokens": self.tokens, "weights": self.weights}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.__init__(state["tokens"], state["weights"])  # type: ignore[misc]


class StringLookup(Layer):
    """The place of each string in a vocabulary.

    The first places are those of the mask, if there is one, and of strings that the vocabulary does
    not have. A captured function gets the integers: call the layer before it, such as in
    `Dataset.map`.

    Args:
        vocabulary: the strings; None for `adapt` to find.
        num_oov_indices: how many places there are for unknown strings; a hash chooses among
            several, and with 0 an unknown string is an error.
        mask_token: a string that has place 0.
        oov_token: what unknown places are called by `get_vocabulary` and `invert`.
        max_tokens: the number of all places, which bounds what `adapt` keeps.
        invert: whether to take places and return strings.
        output_mode: "int"; or a vector for each item by `CategoryEncoding`; or "tf_idf", counts
            times log(1 + n / (1 + d)) for a string that is in d of the n rows of `adapt`. Unknown
            strings have the mean of these weights.
        idf_weights: the weights for "tf_idf" of a vocabulary that is given.
        options: see `Layer`.

    >>> layer = pb.layers.StringLookup(["cat", "dog"])
    >>> layer([["dog", "cow"]]).tolist()
    [[2, 0]]
    >>> layer.adapt(["a", "b", "b"])
    >>> layer.get_vocabulary()
    ['[UNK]', 'b', 'a']

    Raises:
        InputValueError: for a string that is twice in the vocabulary, or an unknown one without a
            place for it.
        InputTypeError: for inputs that are not strings.
        LayerError: for a call before `adapt`.
        CaptureError: in a captured function.
    """

    _default: Token = "[UNK]"

    def __init__(
        self,
        vocabulary: Sequence[Token] | None = None,
        *,
        num_oov_indices: int = 1,
        mask_token: Token | None = None,
        oov_token: Token | None = None,
        max_tokens: int | None = None,
        invert: bool = False,
        output_mode: TokenMode = "int",
        idf_weights: Sequence[float] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_oov_indices = as_int(num_oov_indices, "num_oov_indices: a number of places")
        if self.num_oov_indices < 0:
            raise errors.InputValueError(
                f"num_oov_indices must be 0 or more, got {num_oov_indices}"
            )
        kind = type(self._default)
        for name, token in (("mask_token", mask_token), ("oov_token", oov_token)):
            if token is not None and type(token) is not kind:
                raise errors.InputTypeError(f"{name} is {token!r}; write a {kind.__name__} or None")
        self.mask_token = mask_token
        self.oov_token = self._default if oov_token is None else oov_token
        self.max_tokens = None if max_tokens is None else as_int(max_tokens, "max_tokens: a number")
        self.invert = as_bool(invert, "invert")
        self.output_mode = checked_mode(output_mode, _MODES)
        self.vocabulary = Vocabulary()
        weighs = output_mode == "tf_idf" and vocabulary is not None
        if weighs != (idf_weights is not None):
            raise errors.InputValueError(
                'give idf_weights with vocabulary and output_mode="tf_idf"; adapt finds both'
            )
        if vocabulary is not None:
            tokens = [*self._tokens(vocabulary)]
            self._keep(tokens, None if idf_weights is None else _numbers(idf_weights, len(tokens)))

    @property
    def vocabulary_size(self) -> int:
        """The number of places."""
        return self._first + len(self.vocabulary.tokens)

    def get_vocabulary(self) -> list[Token]:
        """The tokens in the order of their places, those of the mask and unknown ones first."""
        mask = [] if self.mask_token is None else [self.mask_token]
        return [*mask, *[self.oov_token] * self.num_oov_indices, *self.vocabulary.tokens]

    def adapt(self, data: Any, *, steps: int | None = None) -> None:
        """Finds the vocabulary of data: the most frequent first, equally frequent ones in order.

        Args:
            data: tokens in an array or nested lists, or a dataset of such, or of tuples that begin
                with them.
            steps: the number of elements of a dataset to take; all if None.

        Raises:
            InputValueError: for no data.
        """
        counts: Counter[Token] = Counter()
        rows_with: Counter[Token] = Counter()
        rows = 0
        for element in _elements(data, steps):
            for row in self._rows(element):
                counts.update(row)
                rows_with.update({*row})
                rows += 1
        if self.mask_token is not None:
            counts.pop(self.mask_token, None)
        if not counts:
            raise errors.InputValueError(f"{type(self).__name__}.adapt: there are no data")
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        room = None if self.max_tokens is None else max(0, self.max_tokens - self._first)
        weights = None
        if self.output_mode == "tf_idf":
            weights = [math.log(1 + rows / (1 + rows_with[token])) for token in ordered[:room]]
        self._keep(ordered[:room], weights)

    def call(self, x: Any) -> Any:
        """Returns places; inverted, tokens."""
        reject_use("looks up strings", "call the layer before it, such as in Dataset.map")
        if not self.vocabulary.tokens:
            raise errors.LayerError(
                "it has no vocabulary yet; call layer.adapt(data) first, or give vocabulary="
            )
        if self.invert:
            names = self.get_vocabulary()
            places = x.tolist() if hasattr(x, "tolist") else x
            return self._as_tokens(_each(lambda place: self._named(names, place), places))
        found = from_any(_each(self._place, self._values(x)), dtypes.DEFAULT_INT)
        weights = self.vocabulary.weights
        if weights is None:
            return encoded(found, self.vocabulary_size, self.output_mode)
        unknown = math.fsum(weights) / len(weights)
        return encoded(found, self.vocabulary_size, "count") * from_any(
            [unknown] * self._first + weights
        )

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, with the vocabulary of now."""
        known = self.vocabulary
        now = {"vocabulary": known.tokens or None, "idf_weights": known.weights}
        return {**super().constructor_arguments(), **now}

    @property
    def _first(self) -> int:
        return self.num_oov_indices + (self.mask_token is not None)

    def _keep(self, tokens: Sequence[Token], weights: Sequence[float] | None) -> None:
        special = {self.mask_token, self.oov_token} if self._first else {self.mask_token}
        kept = [i for i, token in enumerate(tokens) if token not in special]
        self.vocabulary = Vocabulary(
            [tokens[i] for i in kept], None if weights is None else [weights[i] for i in kept]
        )

    def _place(self, token: Token) -> int:
        if self.mask_token is not None and token == self.mask_token:
            return 0
        place = self.vocabulary.places.get(token)
        if place is not None:
            return place + self._first
        if not self.num_oov_indices:
            raise errors.InputValueError(
                f"{token!r} is not in the vocabulary of {self.name}; give num_oov_indices=1"
            )
        if self.num_oov_indices == 1:
            return self._first - 1
        digest = hashlib.blake2b(str(token).encode(), digest_size=8).digest()
        return self._first - 1 - int.from_bytes(digest, "little") % self.num_oov_indices

    def _named(self, names: list[Token], place: int) -> Token:
        return names[place] if 0 <= place < len(names) else self.oov_token

    # What StringLookup and IntegerLookup do otherwise.

    def _values(self, x: Any) -> Any:
        if not is_text(x):
            raise errors.InputTypeError(
                f"{self.name} takes strings, or arrays and lists of them, got {type(x).__name__}"
            )
        return _text(x)

    def _tokens(self, x: Any) -> Iterator[Token]:
        return (token for row in self._rows(x) for token in row)

    def _rows(self, x: Any) -> Iterator[list[Token]]:
        """The tokens along the last axis."""
        values = [] if isinstance(x, list) and not x else self._values(x)
        return _innermost(values if isinstance(values, list) else [values])

    def _as_tokens(self, values: Any) -> Any:
        return StringTensor(values)


class IntegerLookup(StringLookup):
    """The place of each integer in a vocabulary; see `StringLookup` for its arguments.

    >>> layer = pb.layers.IntegerLookup([12, 36])
    >>> layer([[36, 7]]).tolist()
    [[2, 0]]

    Raises:
        InputTypeError: for inputs that are not integers.
    """

    _default = -1

    def _values(self, x: Any) -> Any:
        tensor = from_any(x)
        if tensor.dtype not in dtypes.INTEGER:
            raise errors.InputTypeError(f"{self.name} takes integers, got {tensor.dtype}")
        return tensor.tolist()

    def _as_tokens(self, values: Any) -> Any:
        return from_any(values)


class TextVectorization(Layer):
    """Texts as rows of the places of their words in a vocabulary.

    Place 0 fills rows up, place 1 is that of unknown words. Call the layer before a captured
    function, such as in `Dataset.map` after `batch`.

    Args:
        max_tokens: the number of all places, which bounds what `adapt` keeps.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation", a function of a
            text, or None.
        split: "whitespace", "character", or a function that makes a list of words of a text.
        ngrams: also the sequences of up to so many words, joined by spaces.
        output_mode: "int" for places, (batch, length); "multi_hot", "count" or "tf_idf" for a
            vector with a number for each place, as of `StringLookup`.
        output_sequence_length: the length of rows: longer ones are cut off; that of the longest
            text if None.
        vocabulary: the words; None for `adapt` to find.
        idf_weights: the weights for "tf_idf" of a vocabulary that is given.
        options: see `Layer`.

    >>> layer = pb.layers.TextVectorization()
    >>> layer.adapt(["A cat.", "A dog!"])
    >>> layer.get_vocabulary()
    ['', '[UNK]', 'a', 'cat', 'dog']
    >>> layer(["a cat, a cow", "dog"]).tolist()
    [[2, 3, 2, 1], [4, 0, 0, 0]]

    Raises:
        InputValueError: for an unknown name of `standardize`, `split` or `output_mode`.
        InputTypeError: for inputs that are not strings.
        LayerError: for a call before `adapt`.
        CaptureError: in a captured function.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        *,
        standardize: Literal["lower_and_strip_punctuation", "lower", "strip_punctuation"]
        | Callable[[str], str]
        | None = "lower_and_strip_punctuation",
        split: Literal["whitespace", "character"] | Callable[[str], Iterable[str]] = "whitespace",
        ngrams: int = 1,
        output_mode: Literal["int", "multi_hot", "count", "tf_idf"] = "int",
        output_sequence_length: int | None = None,
        vocabulary: Sequence[str] | None = None,
        idf_weights: Sequence[float] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.standardize = _chosen("standardize", standardize, _STANDARDS)
        self.split = _chosen("split", split, _SPLITS)
        self.ngrams = as_int(ngrams, "ngrams: a number of words")
        self.output_mode = checked_mode(output_mode, [m for m in _MODES if m != "one_hot"])
        self.output_sequence_length = (
            None
            if output_sequence_length is None
            else as_int(output_sequence_length, "output_sequence_length: a number of words")
        )
        self.lookup = StringLookup(
            vocabulary,
            mask_token="",
            max_tokens=max_tokens,
            output_mode=output_mode,
            idf_weights=idf_weights,
        )

    @property
    def vocabulary_size(self) -> int:
        """The number of places."""
        return self.lookup.vocabulary_size

    def get_vocabulary(self) -> list[Token]:
        """The words in the order of their places, after "" and "[UNK]"."""
        return self.lookup.get_vocabulary()

    def adapt(self, data: Any, *, steps: int | None = None) -> None:
        """Finds the vocabulary of texts: the most frequent words first.

        Args:
            data: texts in an array or list, or a dataset of such, or of tuples that begin with
                them.
            steps: the number of elements of a dataset to take; all if None.

        Raises:
            InputValueError: for no data.
        """
        self.lookup.adapt(
            self._words(text) for texts in _elements(data, steps) for text in self._texts(texts)
        )

    def call(self, x: Any) -> Tensor:
        """Returns places, or vectors."""
        reject_use("looks up words", "call the layer before it, such as in Dataset.map")
        rows = [self._words(text) for text in self._texts(x)]
        length = self.output_sequence_length
        if length is None or self.output_mode != "int":
            length = max(map(len, rows), default=0)
        if self.output_mode != "int":
            length = max(length, 1)
        rows = [[*row[:length], *[""] * (length - len(row))] for row in rows]
        if length and rows:
            found = self.lookup(rows)
        else:
            width = 0 if self.output_mode == "int" else self.vocabulary_size
            found = full((len(rows), width), 0, dtype=dtypes.DEFAULT_INT)
        if self.output_mode != "int":
            # What fills rows up is no word.
            found = found * from_any([0.0] + [1.0] * (self.vocabulary_size - 1))
        return found if _has_axis(x) else found[0]

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, with the vocabulary of now."""
        now = self.lookup.constructor_arguments()
        return {
            **super().constructor_arguments(),
            "vocabulary": now["vocabulary"],
            "idf_weights": now["idf_weights"],
        }

    def _texts(self, x: Any) -> list[str]:
        if not is_text(x):
            raise errors.InputTypeError(
                f"{self.name} takes strings, or arrays and lists of them, got {type(x).__name__}"
            )
        texts = _text(x)
        return [*_flat(texts)] if _has_axis(x) else [texts]

    def _words(self, text: str) -> list[str]:
        words = [*self.split(self.standardize(text))]
        sequences = [
            " ".join(words[i : i + count])
            for count in range(2, self.ngrams + 1)
            for i in range(len(words) - count + 1)
        ]
        return words + sequences


# ---------------------------------------------------------------------------------------------


def _chosen(name: str, value: Any, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if value is None and name == "standardize":
        return str
    if callable(value):
        function: Callable[..., Any] = value
        return function
    if not isinstance(value, str) or value not in known:
        raise errors.InputValueError(
            f"{name} is one of {', '.join(map(repr, known))}, or a function; got {value!r}"
        )
    return known[value]


def _numbers(weights: Any, size: int) -> list[float]:
    numbers = as_list(weights, "idf_weights", "numbers")
    for number in numbers:
        check_number(number, "an element of idf_weights")
    if len(numbers) != size:
        raise errors.InputValueError(
            f"there are {len(numbers)} idf_weights for {size} tokens in vocabulary"
        )
    return [float(number) for number in numbers]


def _elements(data: Any, steps: int | None) -> Iterator[Any]:
    """The arrays of a dataset, of whose tuples the first part counts; or one array."""
    if is_text(data) or hasattr(type(data), "__array__") or isinstance(data, list):
        if not isinstance(data, list) or data:
            yield data
        return
    last = None if steps is None else as_int(steps, "steps: a number of batches")
    for number, element in enumerate(_iterable(data)):
        if number == last:
            return
        yield element[0] if isinstance(element, tuple) else element


def _iterable(data: Any) -> Iterable[Any]:
    if not isinstance(data, Iterable):
        raise errors.InputTypeError(
            f"adapt takes strings, or arrays, lists and datasets of them, got {type(data).__name__}"
        )
    return data


def _text(x: Any) -> Any:
    """Strings in nested lists; bytes are UTF-8."""
    value = x.tolist() if hasattr(x, "tolist") else x
    return _each(lambda one: one.decode() if isinstance(one, bytes) else one, value)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_each(function, item) for item in value]
    return function(value)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _innermost(value: list[Any]) -> Iterator[list[Any]]:
    if value and isinstance(value[0], list):
        for item in value:
            yield from _innermost(item)
    else:
        yield value


def _has_axis(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or getattr(x, "shape", ()) != ()

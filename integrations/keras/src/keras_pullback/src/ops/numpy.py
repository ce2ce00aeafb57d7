"""NumPy's functions, as Keras names them."""

from keras_pullback.src.ops.arrays import *
from keras_pullback.src.ops.elementwise import *
from keras_pullback.src.ops.products import *
from keras_pullback.src.ops.reductions import *

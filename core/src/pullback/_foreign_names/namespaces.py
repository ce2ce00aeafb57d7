"""Names of modules that are called otherwise here."""

from __future__ import annotations

from pullback._foreign_names.functions import FUNCTIONS

__all__ = ["NAMESPACES"]

_LAYERS = {
    "Linear LazyLinear":
        "write `pb.layers.Dense(10)`: the size of the inputs comes from the first one",
    "Conv1d":
        "write `pb.layers.Conv1D(16, 3)`, filters and window; data are (batch, steps, channels)",
    "Conv2d":
        "write `pb.layers.Conv2D(16, 3)`, filters and window; images are (batch, height, "
        "width, channels)",
    "Conv3d": "write `pb.layers.Conv3D(16, 3)`",
    "ConvTranspose1d": "write `pb.layers.Conv1DTranspose(16, 3)`",
    "ConvTranspose2d": "write `pb.layers.Conv2DTranspose(16, 3)`",
    "Convolution2D": "write `pb.layers.Conv2D(16, 3)`",
    "BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm":
        "write `pb.layers.BatchNormalization()`",
    "LayerNorm": "write `pb.layers.LayerNormalization()`",
    "GroupNorm": "write `pb.layers.GroupNormalization(8)`",
    "RMSNorm": "write `pb.layers.RMSNormalization()`",
    "InstanceNorm1d InstanceNorm2d": "write `pb.layers.InstanceNormalization()`",
    "Dropout1d Dropout2d Dropout3d": "write `pb.layers.SpatialDropout2D(0.5)`",
    "MaxPool1d MaxPooling1D": "write `pb.layers.MaxPool1D(2)`",
    "MaxPool2d MaxPooling2D": "write `pb.layers.MaxPool2D(2)`",
    "MaxPool3d MaxPooling3D": "write `pb.layers.MaxPool3D(2)`",
    "AvgPool1d AveragePooling1D": "write `pb.layers.AveragePool1D(2)`",
    "AvgPool2d AveragePooling2D": "write `pb.layers.AveragePool2D(2)`",
    "AdaptiveAvgPool2d": "write `pb.layers.AdaptiveAveragePool2D(1)`",
    "AdaptiveMaxPool2d": "write `pb.layers.AdaptiveMaxPool2D(1)`",
    "GlobalAveragePooling1D": "write `pb.layers.GlobalAveragePool1D()`",
    "GlobalAveragePooling2D": "write `pb.layers.GlobalAveragePool2D()`",
    "GlobalMaxPooling1D": "write `pb.layers.GlobalMaxPool1D()`",
    "GlobalMaxPooling2D": "write `pb.layers.GlobalMaxPool2D()`",
    "Upsample UpsamplingNearest2d": "write `pb.layers.UpSampling2D(2)`",
    "ZeroPad2d": "write `pb.layers.ZeroPadding2D(1)`",
    "MultiheadAttention Attention":
        "write `pb.layers.MultiHeadAttention(8, 64)`: heads, and size of a head",
    "StackedRNNCells":
        "write `pb.Sequential([pb.layers.LSTM(64, return_sequences=True), pb.layers.LSTM(64)])`",
    "RNN RNNCell LSTMCell GRUCell SimpleRNNCell":
        "write `pb.layers.LSTM(64)`, `pb.layers.GRU(64)`, `pb.layers.SimpleRNN(64)`",
    "Module": "write `pb.layers.Layer`, or `pb.Model`",
    "ModuleList": "write a list of layers in an attribute",
    "ModuleDict ParameterDict": "write a dict in an attribute",
    "Parameter": "write `pb.Variable(x)`, or `layer.add_variable(name, shape)`",
    "ParameterList": "write a list of `pb.Variable(x)` in an attribute",
    "Identity": "write `pb.layers.Lambda(lambda x: x)`",
    "Sigmoid": "write `pb.layers.Activation(\"sigmoid\")`",
    "Tanh": "write `pb.layers.Activation(\"tanh\")`",
    "GELU": "write `pb.layers.Activation(\"gelu\")`",
    "SiLU Swish": "write `pb.layers.Activation(\"silu\")`",
    "ELU": "write `pb.layers.Activation(\"elu\")`",
    "SELU": "write `pb.layers.Activation(\"selu\")`",
    "Softplus": "write `pb.layers.Activation(\"softplus\")`",
    "Mish": "write `pb.layers.Activation(\"mish\")`",
    "ReLU6": "write `pb.layers.Activation(\"relu6\")`",
    "Hardtanh": "write `pb.layers.Activation(\"hard_tanh\")`",
    "Hardswish": "write `pb.layers.Activation(\"hard_silu\")`",
    "LogSoftmax": "write `pb.layers.Activation(\"log_softmax\")`",
    "PReLU": "write `pb.prelu` in the `call` of a layer of your own, with its slope as a variable",
    "InputLayer InputSpec":
        "write `pb.Input((784,))`, or leave it out: sizes come from the first call",
    "PositionEmbedding SinePositionEncoding":
        "write `pb.layers.RotaryEmbedding()`, or add an `pb.layers.Embedding(512, 64)` of places",
    "Resizing": "write `pb.layers.Lambda(lambda x: pb.resize(x, (32, 32)))`",
    "CenterCrop": "write `pb.layers.RandomCrop(32, 32)`: without training it cuts out the centre",
    "spectral_norm": "write `pb.layers.SpectralNormalization(layer)`",
    "weight_norm": "write `pb.layers.WeightNormalization(layer)`",
    "Concat": "write `pb.layers.Concatenate()`",
    "Unflatten": "write `pb.layers.Reshape((3, 4))`",
    "EmbeddingBag": "write `pb.layers.Embedding(100, 8)`, then `pb.mean(x, axis=1)`",
    "PixelShuffle": "write `x.reshape` and `pb.permute_dims`",
    "TransformerEncoder TransformerEncoderLayer Transformer TransformerDecoderLayer":
        "not here: write it of `pb.layers.MultiHeadAttention(8, 64)` and "
        "`pb.layers.LayerNormalization()`",
    "CrossEntropyLoss": "write `pb.losses.sparse_softmax_cross_entropy(labels, logits)`",
    "MSELoss": "write `pb.losses.mean_squared_error(targets, predictions)`",
    "BCEWithLogitsLoss BCELoss": "write `pb.losses.sigmoid_cross_entropy(labels, logits)`",
    "activations": "write `pb.relu`, or names: `pb.layers.Dense(10, \"relu\")`",
    "losses": "write `pb.losses`",
    "Wrapper": "write a `pb.layers.Layer` with the other one in an attribute",
}  # fmt: skip

_LOSSES = {
    "mse MSE MSELoss mse_loss MeanSquaredError":
        "write `pb.losses.mean_squared_error`; `compile` takes \"mse\"",
    "mae MAE L1Loss l1_loss MeanAbsoluteError":
        "write `pb.losses.mean_absolute_error`; `compile` takes \"mae\"",
    "cross_entropy CrossEntropyLoss SparseCategoricalCrossentropy sparse_categorical_crossentropy":
        "write `pb.losses.sparse_softmax_cross_entropy(labels, logits)`, without softmax in "
        "the model",
    "categorical_crossentropy CategoricalCrossentropy":
        "write `pb.losses.softmax_cross_entropy(labels, logits)`, without softmax in the model",
    "binary_crossentropy BinaryCrossentropy BCELoss BCEWithLogitsLoss bce binary_cross_entropy "
    "binary_cross_entropy_with_logits":
        "write `pb.losses.sigmoid_cross_entropy(labels, logits)`, without sigmoid in the model",
    "nll_loss NLLLoss":
        "write `pb.losses.negative_log_likelihood(labels, pb.log_softmax(logits))`",
    "smooth_l1_loss SmoothL1Loss Huber HuberLoss":
        "write `pb.losses.huber`; SmoothL1Loss of another beta than 1 is divided by it",
    "kl_div KLDivLoss KLDivergence kld": "write `pb.losses.kl_divergence`",
    "CosineSimilarity CosineEmbeddingLoss cosine_embedding_loss":
        "write `pb.losses.cosine_distance`",
    "ctc CTCLoss ctc_loss CTC": "write `pb.ctc_loss`",
    "Hinge HingeEmbeddingLoss hinge_embedding_loss": "write `pb.losses.hinge`",
    "logcosh LogCosh": "write `pb.losses.log_cosh`",
    "Loss": "a loss is a function of targets and predictions",
    "focal_loss sigmoid_focal_loss BinaryFocalCrossentropy":
        "write `pb.losses.sigmoid_focal_cross_entropy(labels, logits)`",
    "Poisson PoissonNLLLoss poisson_nll_loss":
        "write `pb.losses.poisson`, with `log_input=True` for logarithms",
    "GaussianNLLLoss gaussian_nll_loss":
        "write `pb.losses.gaussian_negative_log_likelihood(targets, means, variances)`",
    "TripletMarginLoss triplet_margin_loss triplet_loss triplet_semihard_loss "
    "Triplet triplet":
        "write `pb.losses.triplet_margin(anchors, positives, negatives)`",
    "SquaredHinge": "write `pb.losses.squared_hinge`",
    "Dice DiceLoss": "write `pb.losses.dice`",
    "quantile_loss PinballLoss": "write `pb.losses.pinball(targets, predictions, quantile=0.9)`",
    "contrastive_loss InfoNCE NTXentLoss CLIPLoss":
        "write `pb.losses.info_nce(keys, queries)`, with `symmetric=True` for both directions",
    "MultiLabelSoftMarginLoss multilabel_soft_margin_loss":
        "write `pb.losses.sigmoid_cross_entropy(labels, logits)`",
    "CategoricalHinge MultiMarginLoss CategoricalFocalCrossentropy Tversky multi_margin_loss "
    "margin_ranking_loss soft_margin_loss multilabel_margin_loss":
        "not here: a loss is any function of targets and predictions",
}  # fmt: skip

_METRICS = {
    "MAE mae": "write `pb.metrics.MeanAbsoluteError()`",
    "MSE mse": "write `pb.metrics.MeanSquaredError()`",
    "RMSE rmse": "write `pb.metrics.RootMeanSquaredError()`",
    "MAPE mape": "write `pb.metrics.MeanAbsolutePercentageError()`",
    "MSLE msle": "write `pb.metrics.MeanSquaredLogarithmicError()`",
    "acc accuracy": "write `pb.metrics.SparseCategoricalAccuracy()`, or \"accuracy\" in `compile`",
    "SparseTopKCategoricalAccuracy": "write `pb.metrics.SparseTopKAccuracy()`",
    "TopKCategoricalAccuracy": "write `pb.metrics.TopKAccuracy()`",
    "F1 f1_score": "write `pb.metrics.F1Score()`",
    "IoU BinaryIoU": "write `pb.metrics.MeanIoU`",
    "MeanMetricWrapper": "write `pb.metrics.MeanOf(f)`",
    "ROCAUC AUROC roc_auc_score": "write `pb.metrics.AUC()`",
    "R2": "write `pb.metrics.R2Score()`",
    "confusion_matrix": "write `pb.metrics.ConfusionMatrix(3)`",
    "MeanTensor": "write `pb.metrics.Mean()`",
}  # fmt: skip

_OPTIMIZERS = {
    "SparseAdam": "write `pb.optimizers.Adam(0.001)`",
    "RMSProp": "write `pb.optimizers.RMSprop(0.001)`",
    "NAdam": "write `pb.optimizers.Nadam(0.001)`",
    "AdaGrad": "write `pb.optimizers.Adagrad(0.001)`",
    "AdaDelta": "write `pb.optimizers.Adadelta()`",
    "Momentum MomentumOptimizer": "write `pb.optimizers.SGD(0.01, momentum=0.9)`",
    "GradientDescentOptimizer GradientDescent": "write `pb.optimizers.SGD(0.01)`",
    "AdamOptimizer": "write `pb.optimizers.Adam(0.001)`",
    "lr_scheduler": "write `pb.optimizers.schedules`",
    "LossScaleOptimizer GradScaler": "write `pb.optimizers.LossScale(optimizer)`",
    "clip_grad_norm_": "write `pb.optimizers.Adam(clip_global_norm=1.0)`",
    "Ftrl RAdam Rprop ASGD Muon": "not here: write a `pb.optimizers.Optimizer` of your own",
    "adam": "write `pb.optimizers.Adam(0.001)`",
    "sgd": "write `pb.optimizers.SGD(0.01)`",
}  # fmt: skip

_SCHEDULES = {
    "CosineAnnealingLR CosineDecay cosine cosine_schedule":
        "write `pb.optimizers.schedules.cosine_decay`",
    "CosineAnnealingWarmRestarts CosineDecayRestarts":
        "write `pb.optimizers.schedules.cosine_restarts`",
    "ExponentialLR ExponentialDecay": "write `pb.optimizers.schedules.exponential_decay`",
    "StepLR": "write `pb.optimizers.schedules.step_decay`",
    "MultiStepLR PiecewiseConstantDecay": "write `pb.optimizers.schedules.piecewise_constant`",
    "PolynomialDecay PolynomialLR LinearLR linear_schedule":
        "write `pb.optimizers.schedules.polynomial_decay`",
    "InverseTimeDecay": "write `pb.optimizers.schedules.inverse_root_decay`",
    "LambdaLR": "write a function of the step: `pb.optimizers.SGD(lambda step: 0.1 / (1 + step))`",
    "ReduceLROnPlateau": "write `pb.callbacks.ReduceLearningRateOnPlateau()`",
    "OneCycleLR CyclicLR":
        "write a function of the step, or `pb.optimizers.schedules.cosine_decay`",
}  # fmt: skip

_DATA = {
    "DataLoader": "write `pb.data.Dataset.from_tensor_slices((x, y)).shuffle().batch(32)`",
    "TensorDataset": "write `pb.data.Dataset.from_tensor_slices((x, y))`",
    "IterableDataset": "write `pb.data.Dataset.from_generator(f)`",
    "Subset random_split": "write `dataset.take(100)`, `dataset.skip(100)`",
    "ConcatDataset": "write `dataset.concatenate(dataset)`",
    "TFRecordDataset": "write `pb.data.Dataset.from_tfrecord`",
    "TextLineDataset": "write `pb.data.Dataset.from_text_lines`",
    "FixedLengthRecordDataset": "write `pb.data.Dataset.from_files`",
    "AUTOTUNE experimental Options": "not here: write `dataset.prefetch(2)`, a number",
    "Sampler RandomSampler WeightedRandomSampler": "write `dataset.shuffle()`",
    "DistributedSampler": "write `dataset.shard(2, 0)`",
    "default_collate collate_fn": "write `dataset.batch(32)`, or `dataset.padded_batch(32)`",
}  # fmt: skip

_CALLBACKS = {
    "ModelCheckpoint BackupAndRestore":
        "write `pb.callbacks.Checkpoint(directory)`, or "
        "`pb.callbacks.Checkpoint(directory, keep_best=1, monitor=\"val_loss\")` for the best",
    "ReduceLROnPlateau": "write `pb.callbacks.ReduceLearningRateOnPlateau()`",
    "LearningRateScheduler": "write `pb.callbacks.LearningRateSchedule(f)`",
    "LambdaCallback": "write a `pb.callbacks.Callback` of your own",
    "ProgbarLogger TQDMProgressBar": "write `pb.callbacks.ProgressBar()`",
    "TerminateOnNan": "write `pb.callbacks.TerminateOnNaN()`",
    "EarlyStop": "write `pb.callbacks.EarlyStopping()`",
    "RemoteMonitor WandbCallback": "not here: write a `pb.callbacks.Callback` of your own",
}  # fmt: skip

_RANDOM = {
    "rand random random_sample": "write `pb.random.uniform((2, 3))`",
    "randn standard_normal": "write `pb.random.normal((2, 3))`",
    "randint": "write `pb.random.integers((2, 3), 0, 10)`",
    "choice": "write `pb.random.categorical(logits)`, or `pb.random.permutation(x)[:3]`",
    "shuffle": "write `pb.random.permutation(x)`, which returns another tensor",
    "set_seed manual_seed": "write `pb.random.seed(0)`",
    "PRNGKey key default_rng RandomState get_state": "write `pb.Generator(0)`",
    "split fold_in": "write `pb.Generator(1)`: each generator has its own stream",
    "multinomial":
        "write `pb.random.categorical(pb.log(p))`: it takes logits, not probabilities",
    "bits": "write `pb.Generator(0).bits((2, 3))`",
    "permuted": "write `pb.random.permutation(x)`",
    "standard_exponential": "write `pb.random.exponential((2, 3))`",
    "standard_gamma": "write `pb.random.gamma((2, 3), 2.0)`",
    "lognormal log_normal": "write `pb.exp(pb.random.normal((2, 3)))`",
    "cauchy standard_cauchy": "write `pb.tan(pb.pi * (pb.random.uniform((2, 3)) - 0.5))`",
    "rademacher": "write `2 * pb.random.integers((2, 3), 0, 2) - 1`",
    "chisquare chi2": "write `2 * pb.random.gamma((2, 3), 2.5)` for 5 degrees of freedom",
    "t standard_t student_t":
        "write `pb.random.normal((2, 3)) / pb.sqrt(pb.random.gamma((2, 3), 2.5) / 2.5)` for 5 "
        "degrees of freedom",
    "weibull weibull_min": "write `pb.random.exponential((2, 3)) ** (1 / k)`",
    "pareto": "write `pb.exp(pb.random.exponential((2, 3)) / a)`, from 1 on; NumPy's are 1 less",
    "rayleigh": "write `pb.sqrt(2 * pb.random.exponential((2, 3)))`",
    "geometric": "write `1 + pb.floor(pb.random.exponential((2, 3)) / -pb.log1p(-p))`",
    "negative_binomial":
        "write `pb.random.poisson(mean=pb.random.gamma((2, 3), n) * (1 - p) / p)`",
    "multivariate_normal": "write `mean + pb.random.normal((2, 3)) @ pb.linalg.cholesky(c).mT`",
    "hypergeometric logseries noncentral_chisquare noncentral_f triangular vonmises wald zipf":
        "not here: write `pb.asarray(np.random.default_rng(0).wald(1.0, 1.0, (2, 3)))`",
    "stateless_normal": "write `pb.Generator(0).normal((2, 3))`",
    "truncated": "write `pb.random.truncated_normal((2, 3))`",
}  # fmt: skip

_LINALG = {
    "norm": "write `pb.linalg.vector_norm(x)`, or `pb.linalg.matrix_norm(x)`",
    "inverse": "write `pb.linalg.inv(x)`",
    "multi_dot": "write `x @ y`",
    "lstsq": "write `pb.linalg.pinv(x) @ y`",
    "lu": "write `pb.linalg.lu_factor(x)`, or `pb.linalg.solve(x, y)`",
    "diag": "write `pb.linalg.diagonal(x)`",
    "determinant": "write `pb.linalg.det(x)`",
    "logdet": "write `pb.linalg.slogdet(x)`",
    "cond": "write `pb.linalg.svdvals(x)`",
    "matrix_exp": "write `pb.linalg.expm(x)`",
    "cholesky_solve cho_solve cholesky_inverse":
        "write `pb.linalg.solve_triangular(x, y)`, then the same with `x.mT` and `upper=True`",
    "sqrtm logm funm": "not here: `pb.linalg.eigh(x)` of a symmetric matrix gives it",
    "vander": "write `pb.numpy.vander(x)`",
    "tensorinv tensorsolve": "write `pb.numpy.linalg.tensorsolve(x, y)`",
    "dot": "write `pb.linalg.vecdot(x, y)`",
    "einsum": "write `pb.einsum`",
}  # fmt: skip

_FFT = {
    "fft2": "write `pb.fft.fftn(x, axes=(-2, -1))`",
    "ifft2": "write `pb.fft.ifftn(x, axes=(-2, -1))`",
    "rfft2": "write `pb.fft.rfftn(x, axes=(-2, -1))`",
    "irfft2": "write `pb.fft.irfftn(x, axes=(-2, -1))`",
}

_INITIALIZERS = {
    "xavier_uniform xavier_uniform_ GlorotUniform":
        "write `pb.layers.initializers.glorot_uniform()`",
    "xavier_normal xavier_normal_ GlorotNormal": "write `pb.layers.initializers.glorot_normal()`",
    "kaiming_uniform kaiming_uniform_ HeUniform": "write `pb.layers.initializers.he_uniform()`",
    "kaiming_normal kaiming_normal_ HeNormal": "write `pb.layers.initializers.he_normal()`",
    "zeros_ Zeros": "write `pb.layers.initializers.zeros()`",
    "ones_ Ones": "write `pb.layers.initializers.ones()`",
    "constant_ Constant": "write `pb.layers.initializers.constant(0.1)`",
    "normal_ RandomNormal random_normal": "write `pb.layers.initializers.normal()`",
    "uniform_ RandomUniform random_uniform": "write `pb.layers.initializers.uniform()`",
    "trunc_normal_ TruncatedNormal": "write `pb.layers.initializers.truncated_normal()`",
    "orthogonal_ Orthogonal": "write `pb.layers.initializers.orthogonal()`",
    "VarianceScaling variance_scaling":
        "write `pb.layers.initializers.he_normal()`, or `pb.layers.initializers.lecun_normal()`",
}  # fmt: skip

_REGULARIZERS = {
    "L1": "write `pb.layers.regularizers.l1(0.01)`",
    "L2": "write `pb.layers.regularizers.l2(0.01)`",
    "L1L2": "write `pb.layers.regularizers.l1_l2(0.01, 0.01)`",
}

#: The tables of modules by the name of the module.
NAMESPACES = {
    "pullback": FUNCTIONS,
    "pullback.layers": _LAYERS,
    "pullback.losses": _LOSSES,
    "pullback.metrics": _METRICS,
    "pullback.optimizers": _OPTIMIZERS,
    "pullback.optimizers.schedules": _SCHEDULES,
    "pullback.data": _DATA,
    "pullback.callbacks": _CALLBACKS,
    "pullback.random": _RANDOM,
    "pullback.linalg": _LINALG,
    "pullback.fft": _FFT,
    "pullback.layers.initializers": _INITIALIZERS,
    "pullback.layers.regularizers": _REGULARIZERS,
}

"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.arithmetic import fixed_power as fixed_power
from pullback.ops.arithmetic import integer_floor_divide as integer_floor_divide
from pullback.ops.arithmetic import slope_quotient as slope_quotient
from pullback.ops.bessel import bessel_i as bessel_i
from pullback.ops.cumulative import linear_recurrence as linear_recurrence
from pullback.ops.incomplete_gamma import gamma_density as gamma_density
from pullback.ops.incomplete_gamma import gamma_order_slope as gamma_order_slope
from pullback.ops.incomplete_gamma import regularized_gamma as regularized_gamma
from pullback.ops.indexing import place_along_axis as place_along_axis
from pullback.ops.linalg.distances import cdist_gradient as cdist_gradient
from pullback.ops.linalg.lu import row_order as row_order
from pullback.ops.nn.activations import elu_gradient as elu_gradient
from pullback.ops.nn.activations import gelu_gradient as gelu_gradient
from pullback.ops.nn.activations import leaky_relu_gradient as leaky_relu_gradient
from pullback.ops.nn.activations import mish_gradient as mish_gradient
from pullback.ops.nn.activations import relu_gradient as relu_gradient
from pullback.ops.nn.activations import sigmoid_gradient as sigmoid_gradient
from pullback.ops.nn.activations import silu_gradient as silu_gradient
from pullback.ops.nn.alignment import ctc_loss_gradient as ctc_loss_gradient
from pullback.ops.nn.attention import (
    scaled_dot_product_attention_gradient as scaled_dot_product_attention_gradient,
)
from pullback.ops.nn.batch_normalization import batch_norm_gradient as batch_norm_gradient
from pullback.ops.nn.convolution import conv_input_gradient as conv_input_gradient
from pullback.ops.nn.convolution import conv_kernel_gradient as conv_kernel_gradient
from pullback.ops.nn.losses import (
    negative_log_likelihood_of_classes as negative_log_likelihood_of_classes,
)
from pullback.ops.nn.losses import (
    sparse_softmax_cross_entropy_gradient as sparse_softmax_cross_entropy_gradient,
)
from pullback.ops.nn.normalization import group_norm_gradient as group_norm_gradient
from pullback.ops.nn.normalization import layer_norm_gradient as layer_norm_gradient
from pullback.ops.nn.normalization import rms_norm_gradient as rms_norm_gradient
from pullback.ops.nn.pooling import avg_pool_gradient as avg_pool_gradient
from pullback.ops.nn.pooling import max_pool_gradient as max_pool_gradient
from pullback.ops.nn.recurrent_gru import gru_gradient as gru_gradient
from pullback.ops.nn.recurrent_lstm import lstm_gradient as lstm_gradient
from pullback.ops.nn.resize import resize_gradient as resize_gradient
from pullback.ops.nn.softmax import log_softmax_gradient as log_softmax_gradient
from pullback.ops.nn.softmax import softmax_gradient as softmax_gradient
from pullback.ops.optim.adaptive_updates import adadelta_update as adadelta_update
from pullback.ops.optim.adaptive_updates import adagrad_update as adagrad_update
from pullback.ops.optim.adaptive_updates import ftrl_update as ftrl_update
from pullback.ops.optim.adaptive_updates import rmsprop_momentum_update as rmsprop_momentum_update
from pullback.ops.optim.adaptive_updates import rmsprop_update as rmsprop_update
from pullback.ops.optim.optimizer_updates import adam_update as adam_update
from pullback.ops.optim.optimizer_updates import adamax_update as adamax_update
from pullback.ops.optim.optimizer_updates import amsgrad_update as amsgrad_update
from pullback.ops.optim.optimizer_updates import lion_update as lion_update
from pullback.ops.optim.optimizer_updates import momentum_update as momentum_update
from pullback.ops.optim.optimizer_updates import nadam_update as nadam_update
from pullback.ops.optim.optimizer_updates import sgd_update as sgd_update
from pullback.ops.optim.scaled_updates import adafactor_update as adafactor_update
from pullback.ops.optim.scaled_updates import adafactor_vector_update as adafactor_vector_update
from pullback.ops.optim.scaled_updates import lamb_update as lamb_update
from pullback.ops.slicing import strided_place as strided_place
from pullback.ops.slicing import strided_slice as strided_slice
from pullback.ops.slicing import strided_update as strided_update
from pullback.ops.special import bell as bell
from pullback.ops.trigonometric import tanh_gradient as tanh_gradient

FAMILIES: tuple[str, ...]

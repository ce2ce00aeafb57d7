from pullback.dispatch import op, primitive
from pullback.ops.arithmetic import *
from pullback.ops.reductions import *
from pullback.ops.manipulation import *
from pullback.ops.creation import *
from pullback.tape import GradientTape
from pullback.tensor import Tensor

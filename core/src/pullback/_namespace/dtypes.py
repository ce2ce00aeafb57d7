"""The dtypes, as the namespace names them: what `pullback.float32` is."""

from pullback.dtypes import named

bool_, int8, int16, int32, int64 = map(named, ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(named, ("uint8", "uint16", "uint32", "uint64"))
bfloat16, float16, float32, float64 = map(named, ("bfloat16", "float16", "float32", "float64"))
complex64, complex128 = map(named, ("complex64", "complex128"))
float8_e4m3fn, float8_e5m2 = map(named, ("float8_e4m3fn", "float8_e5m2"))
int4, uint4 = map(named, ("int4", "uint4"))

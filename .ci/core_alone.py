"""What must hold where core is installed without a backend: the error says what to install."""

import pullback as pb

try:
    pb.asarray([1.0])
except pb.errors.BackendNotFoundError as error:
    message = str(error)
else:
    raise SystemExit("a tensor was made without a backend")

assert "pip install" in message, message
print(message)

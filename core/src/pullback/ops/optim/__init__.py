"""Steps of optimizers, and clipping of gradients."""

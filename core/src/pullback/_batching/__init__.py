"""Functions of one item made functions of a batch: `pb.vmap`."""

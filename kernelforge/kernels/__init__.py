"""The built-in kernels: one class a module; ``*_device`` modules hold device code and import the compiler."""

"""The bundled studies: one folder a source, with its TOML studies, its paper's figures and its claims."""

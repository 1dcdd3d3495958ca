"""Every setting: frozen dataclasses with a sentence per field; TOML presets in, JSON out."""

"""How text becomes ids."""

"""How targets are checked: one package a type, listed here by hand. A name that can't be grepped costs more than a line."""

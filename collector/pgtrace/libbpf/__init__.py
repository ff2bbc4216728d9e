"""libbpf.so.1, bound by ctypes: prototypes apart from classes."""

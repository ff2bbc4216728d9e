"""The bcc engine: libbpf's object, with types that bcc compiles where the kernel has no BTF."""

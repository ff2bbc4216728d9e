"""libbpf"""

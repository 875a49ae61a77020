"""A check on a machine with a real NVIDIA GPU, which needs Python 3.10, this repository and nvidia-ml-py, and no Kubernetes."""

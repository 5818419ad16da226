"""The conditional diffusion model: its SDE, network, training and sampling."""

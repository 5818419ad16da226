"""Experiments: campaigns of replications, their stored records, and what is made of them."""

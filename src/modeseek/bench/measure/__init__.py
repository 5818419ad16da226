"""Measurements that are not replications: seconds, growth, distributions of x*, the terms of Lemma 1."""

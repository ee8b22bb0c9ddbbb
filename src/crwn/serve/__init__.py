"""The HTTP service: predict, infer tasks, teach and exchange contexts over the network; its client and web page."""

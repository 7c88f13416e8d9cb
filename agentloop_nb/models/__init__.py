"""Models: what answers a request. Nothing here imports a provider's SDK before it is used."""

"""A hostile channel, simulated: the real engine and bridge here, the real page in Node.

Both sides keep their own timers on one made-up clock, so a seed plays the same every time and its
minutes pass in milliseconds. Between them lies a wire that drops, repeats, delays and reorders.
"""

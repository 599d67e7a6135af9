"""Real processes and real servers, hurt while they work; a stand-alone checker judges what they recorded.

`make chaos` runs the long form. The short one is among the tests.
"""

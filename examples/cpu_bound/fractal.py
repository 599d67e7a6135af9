"""A task that computes: as a plain function it runs in a child process, and can be stopped anywhere.

`python draw.py` runs it inside a program; `rota dev fractal.py` and `rota task submit mandelbrot --wait` without one.
"""

import os

import rota


@rota.task("mandelbrot", timeout="1m", retries=0)
def mandelbrot(ctx: rota.Context, width: int = 60, *, height: int = 20, depth: int = 500) -> dict[str, object]:
    rows = []
    for row in range(height):
        rows.append(
            "".join(shade(column / width * 3 - 2, row / height * 2 - 1, depth=depth) for column in range(width))
        )
        ctx.progress((row + 1) / height, f"row {row + 1} of {height}")
    return {"rows": rows, "process": os.getpid()}


def shade(real: float, imaginary: float, *, depth: int) -> str:
    point, value = complex(real, imaginary), 0j
    for step in range(depth):
        value = value * value + point
        if abs(value) > 2:
            return " .:-=+*%"[min(step // 2, 7)]
    return "#"

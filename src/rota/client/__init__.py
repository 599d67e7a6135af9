"""Talking to Rota from another program, over HTTP."""

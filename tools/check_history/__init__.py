"""Judge a recorded history of a Rota cluster: was every promise kept?

    python -m tools.check_history FOLDER

It reads nothing but the files, knows nothing of Rota's code, and states each promise anew: a checker that shared the
code it checks would share its mistakes.
"""

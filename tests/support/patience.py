"""How long tests wait for what must happen: they are about the answer, and the machine may have much else to do."""

PATIENCE_S = 60.0

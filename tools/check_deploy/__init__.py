"""Check what is in deploy/ without a container, a cluster or a network: `python -m tools.check_deploy [--write]`.

Files that nobody runs here rot unnoticed. So every setting, command, port, path and metric that they name is asked of
the product's own code, whoever ends a process must wait until it has drained, and what others have written schemas or
programs for is shown to those: the compose specification, Kubernetes' schemas, helm, hadolint, systemd-analyze. The
manifests in deploy/kubernetes are the chart, rendered; `--write` renders them anew.
"""

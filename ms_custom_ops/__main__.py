# SPDX-License-Identifier: Apache-2.0
"""``python -m ms_custom_ops``: the command line."""

from ms_custom_ops.cli import main

if __name__ == "__main__":
    main(prog_name="ms-custom-ops")

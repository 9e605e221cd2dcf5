# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.utils.log``: messages of operators, which go to Python's logging under the name ``tbe``."""

from __future__ import annotations

import logging

_logger = logging.getLogger("tbe")
debug, info, warn, error = _logger.debug, _logger.info, _logger.warning, _logger.error
warning, event = warn, info

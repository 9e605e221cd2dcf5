# SPDX-License-Identifier: Apache-2.0
"""Shapes of bwd_segsum_dadt: a table in random order, then random ones."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig

SHAPES = [(1, 1, 1, 8), (1, 2, 2, 16), (2, 4, 4, 32), (1, 8, 1, 32)]


@GENERATOR_REGISTRY.register("generator_bwd_segsum_dadt")
class SegsumGenerator(CaseGenerator):
    def __init__(self, config):
        super().__init__(config)
        self.shapes = list(SHAPES)
        random.shuffle(self.shapes)

    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        dssda, ssda, ddt_out, chunk_size = case_config.inputs
        if self.shapes:
            b, h, n, c = self.shapes.pop()
        else:
            b, h, n, c = (random.choice(s) for s in ([1, 2], [1, 2, 4], [1, 2], [16, 32]))
        dssda.shape = [b, h, n, c, c]
        ssda.shape = list(dssda.shape)
        ssda.dtype = dssda.dtype
        ddt_out.shape = [b, h, n * c]
        chunk_size.range_values = c
        return case_config

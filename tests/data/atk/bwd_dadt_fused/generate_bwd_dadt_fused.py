# SPDX-License-Identifier: Apache-2.0
"""Matrices of one dtype and sums of their steps."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig


@GENERATOR_REGISTRY.register("generator_bwd_dadt_fused")
class FusedGenerator(CaseGenerator):
    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        c = case_config.get_input_data_config(name="chunk_size").range_values
        n = random.randint(1, 3)
        for item in case_config.inputs[:2]:
            item.dtype, item.shape = case_config.inputs[0].dtype, [1, 2, n, c, c]
        for item in case_config.inputs[2:6]:
            item.shape = [1, 2, n * c]
        return case_config

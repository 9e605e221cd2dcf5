# SPDX-License-Identifier: Apache-2.0
"""Equal shapes of whole chunks."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig


@GENERATOR_REGISTRY.register("generator_bwd_dadt_cumsum")
class CumsumGenerator(CaseGenerator):
    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        *sums, chunk_size = case_config.inputs
        shape = [*sums[0].shape[:2], chunk_size.range_values * random.randint(1, 4)]
        for item in sums:
            item.shape = list(shape)
        return case_config

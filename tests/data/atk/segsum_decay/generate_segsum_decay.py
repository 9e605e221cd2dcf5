# SPDX-License-Identifier: Apache-2.0
"""Lengths of segsum_decay; is_ragged is a switch of this generator, not an argument of the operator."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig


@GENERATOR_REGISTRY.register("generator_segsum_decay")
class DecayGenerator(CaseGenerator):
    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        da, chunk_size, is_ragged = case_config.inputs
        steps = chunk_size.range_values * random.randint(1, 3)
        da.shape[2] = steps - 5 if is_ragged.range_values else steps
        return case_config

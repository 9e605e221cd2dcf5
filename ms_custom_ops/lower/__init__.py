# SPDX-License-Identifier: Apache-2.0
"""From a call of a public function to its primitive, once for all faces: graph, NumPy, aclnn, documentation."""

// SPDX-License-Identifier: Apache-2.0
// The state in which an optimizer counts its steps: those that changed something.
#pragma once

namespace autopar {

inline constexpr const char *kStepCountState = "optimizer/steps";
/// Of steps whose gradients overflowed, with loss scaling.
inline constexpr const char *kSkippedStepsState = "loss_scale/skipped_steps";

} // namespace autopar

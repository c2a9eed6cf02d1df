// SPDX-License-Identifier: Apache-2.0
// How long threads of the OpenMP pool wait awake for the next call.
#pragma once

namespace autopar::cpumath {

/// To be called first in main(). An OpenMP thread waits awake for 300,000 rounds by default,
/// several milliseconds, and every call waits for its slowest thread: where another process has one
/// of the cores, the threads that wait awake keep the system from moving the one that does not run.
/// With kThreadWaitRounds they sleep soon enough, and still later than calls follow each other.
///
/// The pool reads its settings when it is loaded, before main(): the program starts itself again
/// with GOMP_SPINCOUNT, unless that or OMP_WAIT_POLICY is given. Goes on where it cannot.
void waitBriefly(char **argv);

constexpr int kThreadWaitRounds = 30000; ///< python/autopar/runtime_library.py has it too

} // namespace autopar::cpumath

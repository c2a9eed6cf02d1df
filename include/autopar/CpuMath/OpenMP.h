// SPDX-License-Identifier: Apache-2.0
// The few entry points of the OpenMP runtime that oneDNN was built with. The CPU device runs its
// own kernels on the same threads, so that a rank never has two pools that fight for its cores;
// naming the entry points here keeps that true whatever OpenMP library the compiler would choose.
#pragma once

extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
/// The fork-join call behind `#pragma omp parallel`, stable since GCC 4.9.
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
}

namespace autopar::cpumath {

/// Sets the calling thread's number of OpenMP threads for a scope.
class ThreadCountScope {
public:
  explicit ThreadCountScope(int threads) : before(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCountScope() { omp_set_num_threads(before); }
  ThreadCountScope(const ThreadCountScope &) = delete;
  ThreadCountScope &operator=(const ThreadCountScope &) = delete;

private:
  int before;
};

} // namespace autopar::cpumath

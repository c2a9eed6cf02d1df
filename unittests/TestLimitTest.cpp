// SPDX-License-Identifier: Apache-2.0
// A thread that waits for what never comes. ctest expects that the program's main() ends it.
#include <gtest/gtest.h>

#include <future>
#include <thread>

TEST(TestLimit, AThreadWaitsForever) {
  std::promise<void> never;
  std::thread waiting([&] { never.get_future().wait(); });
  waiting.join();
}

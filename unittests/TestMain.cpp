// SPDX-License-Identifier: Apache-2.0
// main() of every gtest program: a test that waits for ever ends its program with its name, so that
// who reads the log knows which one it was.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <csignal>
#include <unistd.h>

namespace {

/// More than any test takes on a busy machine; AUTOPAR_TEST_LIMIT_S is another one.
constexpr unsigned defaultLimitS = 600;

/// What the signal's handler writes: nothing may be allocated there.
std::string lateness;

void endLate(int) {
  (void)!write(STDERR_FILENO, lateness.data(), lateness.size());
  _exit(EXIT_FAILURE);
}

class TestLimit : public testing::EmptyTestEventListener {
public:
  explicit TestLimit(unsigned limitS) : limitS(limitS) { std::signal(SIGALRM, endLate); }

  void OnTestStart(const testing::TestInfo &test) override {
    lateness = std::string("[  FAILED  ] ") + test.test_suite_name() + "." + test.name() +
               " has not ended after " + std::to_string(limitS) + " s\n";
    alarm(limitS);
  }
  void OnTestEnd(const testing::TestInfo &) override { alarm(0); }

private:
  unsigned limitS;
};

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  const char *given = std::getenv("AUTOPAR_TEST_LIMIT_S");
  testing::UnitTest::GetInstance()->listeners().Append(
      new TestLimit(given ? std::strtoul(given, nullptr, 10) : defaultLimitS));
  return RUN_ALL_TESTS();
}

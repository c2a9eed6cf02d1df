// SPDX-License-Identifier: Apache-2.0
// What one device computes is the standard.
#include "SampleSession.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace autopar::testing {

using runtime::Session;
using runtime::SessionOptions;

std::vector<float> fetch(Session &session, const std::string &name, size_t count) {
  auto data = session.output(name);
  EXPECT_TRUE(data.isOk()) << data.status().message();
  std::vector<float> values(count);
  if (data.isOk())
    std::memcpy(values.data(), *data, count * 4);
  return values;
}

void expectSampleOutputs(Session &session, const std::string &what) {
  ASSERT_TRUE(session.setInput("x", DataType::F32, {kRows, kIn}, sampleInput().data()).isOk());
  for (int64_t step = 0; step < 3; ++step) {
    Status ran = session.run(step, 1);
    ASSERT_TRUE(ran.isOk()) << what << ": " << ran.message();
  }
  ASSERT_TRUE(session.collectOutputs().isOk());
  std::vector<float> y = fetch(session, "y", kRows * kOut), expected = sampleOutput();
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-4f) << what << ", element " << i;
  // The sharded output arrives whole.
  std::vector<float> hidden = fetch(session, "hidden", kRows * kHidden);
  EXPECT_GT(hidden[0] + hidden[7] + hidden[31], -1.0f);
}

void expectSampleOutputsOfAllRanks(
    const std::function<std::unique_ptr<Session>(int32_t ranks, SessionOptions)> &open,
    const std::function<void(SessionOptions &)> &change) {
  for (int32_t ranks : {1, 2, 4, 8})
    for (bool isChanged : {false, true}) {
      SessionOptions options;
      if (isChanged) {
        change(options);
        options.workers = std::max(1, ranks / 3);
      }
      auto session = open(ranks, std::move(options));
      ASSERT_TRUE(session);
      expectSampleOutputs(*session, std::to_string(ranks) + " ranks");
    }
}

} // namespace autopar::testing

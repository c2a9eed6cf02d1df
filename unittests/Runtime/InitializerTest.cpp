// SPDX-License-Identifier: Apache-2.0
// Parameters that are drawn: their distribution, the same numbers for every sharding, and words
// that are refused.
#include "autopar/Runtime/Initializer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace autopar;
using namespace autopar::runtime;

namespace {

artifact::Port absent(const std::string &name, std::vector<int64_t> shape,
                      DataType dtype = DataType::F32) {
  artifact::Port port{artifact::Role::Parameter, name, dtype, std::move(shape), -1, {}};
  port.source.kind = artifact::SourceKind::Absent;
  return port;
}

Initializer parsed(const std::string &text) {
  auto result = Initializer::parse(text);
  EXPECT_TRUE(result.isOk()) << text << ": " << result.status().message();
  return result.isOk() ? result.take() : Initializer();
}

Status problem(const std::string &text, const std::vector<artifact::Port> &ports) {
  std::vector<const artifact::Port *> all;
  for (const artifact::Port &port : ports)
    all.push_back(&port);
  return parsed(text).check(all);
}

std::vector<float> drawn(const std::string &text, const artifact::Port &port, Box box) {
  int64_t count = 1;
  for (int64_t extent : box.extent)
    count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  EXPECT_TRUE(parsed(text).fill(port, box, values.data(), box.extent).isOk());
  return values;
}

std::vector<float> whole(const std::string &text, const artifact::Port &port) {
  return drawn(text, port, {std::vector<int64_t>(port.shape.size(), 0), port.shape});
}

double mean(const std::vector<float> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double deviation(const std::vector<float> &values) {
  double sum = 0, middle = mean(values);
  for (float value : values)
    sum += (value - middle) * (value - middle);
  return std::sqrt(sum / double(values.size()));
}

TEST(Initializer, WhatIsDrawnAnywayMayBeLeftOut) {
  artifact::Port adapter = absent("a", {4}), weight = absent("w", {4});
  EXPECT_EQ(problem("w=zeros", {weight, adapter}).message(),
            "parameter a has no weights, and the initializer has no pattern for it");
  adapter.source.drawn = "normal(1)";
  EXPECT_TRUE(problem("w=zeros", {weight, adapter}).isOk());
}

TEST(Initializer, DrawsWhatItsWordsSay) {
  struct Case {
    const char *text;
    double mean, deviation;
  };
  artifact::Port weight = absent("w", {200, 100}); // 200 outputs, 100 inputs
  for (const Case &c :
       {Case{"zeros", 0, 0}, Case{"ones", 1, 0}, Case{"constant(-3)", -3, 0},
        Case{"normal(2)", 0, 2}, Case{"normal(0.5, 7)", 7, 0.5},
        Case{"uniform(3)", 0, std::sqrt(3.0)}, Case{"uniform(1, 4)", 2.5, std::sqrt(0.75)},
        Case{"xavier_normal", 0, std::sqrt(2 / 300.0)},
        Case{"xavier_uniform(2)", 0, 2 * std::sqrt(2 / 300.0)},
        Case{"kaiming_normal", 0, std::sqrt(2 / 100.0)},
        Case{"kaiming_uniform(1, in=0)", 0, std::sqrt(1 / 200.0)}}) {
    std::vector<float> values = whole(c.text, weight);
    EXPECT_NEAR(mean(values), c.mean, 0.03 * c.deviation + 1e-9) << c.text;
    EXPECT_NEAR(deviation(values), c.deviation, 0.02 * c.deviation + 1e-9) << c.text;
  }
  // A filter's inputs are channels times places.
  EXPECT_NEAR(deviation(whole("kaiming_normal(1)", absent("f", {64, 16, 3, 3}))),
              std::sqrt(1 / 144.0), 2e-3);
}

TEST(Initializer, ABoxIsTheSamePartOfTheWhole) {
  artifact::Port weight = absent("w", {12, 10});
  std::vector<float> all = whole("normal(1), seed=7", weight),
                     box = drawn("normal(1), seed=7", weight, {{3, 4}, {5, 6}});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 6; ++j)
      EXPECT_EQ(box[size_t(i * 6 + j)], all[size_t((i + 3) * 10 + j + 4)]);
  EXPECT_NE(whole("normal(1), seed=8", weight), all);
  EXPECT_NE(whole("normal(1), seed=7", absent("v", {12, 10})), all);
}

TEST(Initializer, TheFirstPatternThatFitsDecides) {
  const char *text = "ln?.weight=ones, *.bias=zeros, h.*=normal(1), *=constant(5)";
  EXPECT_EQ(whole(text, absent("ln1.weight", {2})), (std::vector<float>{1, 1}));
  EXPECT_EQ(whole(text, absent("h.0.bias", {2})), (std::vector<float>{0, 0}));
  EXPECT_EQ(whole(text, absent("ln12.weight", {2})), (std::vector<float>{5, 5}));
  EXPECT_NE(whole(text, absent("h.0.w", {2})), (std::vector<float>{5, 5}));
}

TEST(Initializer, RefusesWhatItCannotDo) {
  for (auto [text, character] :
       std::initializer_list<std::pair<const char *, int>>{{"", 1},
                                                           {"normal", 1},
                                                           {"gauss(1)", 1},
                                                           {"normal(x)", 8},
                                                           {"normal(1", 9},
                                                           {"normal(1), sed=3", 16},
                                                           {"seed=x", 6},
                                                           {"*.w=normal(1) *=ones", 15},
                                                           {"zeros(1)", 1},
                                                           {"normal(1, in=0)", 1},
                                                           {"kaiming_normal(in=2)", 1},
                                                           {"seed=3", 7}}) {
    Status status = Initializer::parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::Usage) << text;
    EXPECT_NE(status.message().find("at character " + std::to_string(character) + "\n"),
              std::string::npos)
        << text << ": " << status.message();
  }
  auto expects = [](const char *text) {
    std::string message = Initializer::parse(text).status().message();
    return message.substr(0, message.find(" at character "));
  };
  const std::string kinds = "zeros, ones, constant(value), normal(deviation, mean), uniform(limit) "
                            "or uniform(least, most), xavier_uniform(gain), xavier_normal(gain), "
                            "kaiming_uniform(gain), kaiming_normal(gain)";
  EXPECT_EQ(expects("=ones"), "initializer: expected a pattern of names, or one of " + kinds);
  EXPECT_EQ(expects("gauss(1)"), "initializer: expected " + kinds);
  EXPECT_EQ(expects("zeros(1)"), "initializer: expected other arguments: " + kinds +
                                     "; in=0 where the first dimension of a weight counts its "
                                     "inputs, not the second");
  EXPECT_EQ(expects("seed=3"), "initializer: expected one of " + kinds);
  EXPECT_EQ(expects("seed=x"), "initializer: expected a whole number");
  EXPECT_EQ(expects("*=ones *=ones"), "initializer: expected ',' or the end");
  std::string order = "initializer: expected a deviation, limit or gain that is not negative, and "
                      "uniform(least, most) in this order,";
  for (const char *text : {"normal(-0.1)", "uniform(3, 1)", "uniform(-1)", "xavier_normal(-2)"})
    EXPECT_EQ(expects(text), order) << text;
  artifact::Port w = absent("w", {4, 4}), bias = absent("bias", {4}), given = w;
  given.source.kind = artifact::SourceKind::File;
  auto says = [](const Status &status, const char *what) {
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  };
  EXPECT_TRUE(problem("w=normal(1), *=zeros", {w, bias}).isOk());
  says(problem("w=normal(1)", {w, bias}), "parameter bias has no weights");
  says(problem("v=zeros, *=normal(1)", {w, bias}), "no parameter is called \"v\"");
  says(problem("kaiming_normal", {w, bias}), "bias: kaiming_normal needs a weight of at least two");
  says(problem("normal(1)", {given}), "nothing to fill");
  says(problem("q*=normal(1)", {w, bias}), "has no weights");
  given.role = artifact::Role::State;
  says(problem("q*=normal(1)", {given}), "no parameter is called \"q*\"");
  EXPECT_EQ(Initializer::parse("/no/such.safetensors").status().code(), StatusCode::NoInput);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// A model of equal layers in a file, for compilations that are looked at.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <unistd.h>

/// y = x W1 W2 ..., with an activation behind every product.
inline std::string layers(int count) {
  std::string origins, arguments, body, value = "%x";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    origins += "autopar.origin @w" + n + " : tensor<512x512xf32> in \"model.onnx\" at 0\n";
    arguments += ", %w" + n + ": tensor<512x512xf32> {autopar.name = \"w" + n +
                 "\", autopar.origin = @w" + n + "}";
    body += "  %p" + n + " = autopar.dot_general " + value + ", %w" + n +
            " contract [1] x [0] {autopar.id = \"p" + n +
            "\"} : (tensor<8192x512xf32>, tensor<512x512xf32>) -> tensor<8192x512xf32>\n"
            "  %a" +
            n + " = autopar.unary tanh %p" + n + " {autopar.id = \"a" + n +
            "\"} : tensor<8192x512xf32>\n";
    value = "%a" + n;
  }
  return origins + "func.func @main(%x: tensor<8192x512xf32> {autopar.name = \"x\"}" + arguments +
         ") -> (tensor<8192x512xf32> {autopar.name = \"y\"}) {\n" + body + "  return " + value +
         " : tensor<8192x512xf32>\n}\n";
}

/// Is gone when it goes.
struct LayersModel {
  explicit LayersModel(int count) { std::ofstream(file) << layers(count); }
  ~LayersModel() { unlink(file.c_str()); }
  LayersModel(const LayersModel &) = delete;
  LayersModel &operator=(const LayersModel &) = delete;

  const std::string file = testing::TempDir() + "layers-" + std::to_string(getpid()) + ".mlir";
};

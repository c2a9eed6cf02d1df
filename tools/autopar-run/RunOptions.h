// SPDX-License-Identifier: Apache-2.0
// The command line of autopar-run.
#pragma once

#include "LaunchOptions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::tools {

struct RunOptions : runtime::LaunchOptions {
  std::string artifact;
  std::vector<std::string> inputs; ///< "name=file.npy", "name=zeros", "name=random"
  std::vector<std::string> data;   ///< files of samples, patterns, or "synthetic"
  std::string fields;              ///< "input_ids=tokens[:-1], labels=tokens[1:]"
  std::string tokenType = "u16";
  uint64_t seed = 0;
  bool inOrder = false;              ///< samples as they lie in the file
  std::vector<std::string> evalData; ///< as `data`, for evaluations
  int64_t evalEvery = 0;             ///< steps; 0: with every checkpoint and at the end
  int64_t evalSteps = 0;             ///< batches; 0: as many as the file has
  std::string onNan = "stop";        ///< stop or skip
  std::string checkpointFolder;
  int64_t checkpointEvery = 0; ///< steps; 0: only at the end
  int64_t keptCheckpoints = 0; ///< the newest; 0: all
  std::string resume = "auto"; ///< auto, none, or a step-<N> folder
  std::string exportFile;      ///< .safetensors
  std::string exportBest;      ///< the same, of the best evaluation
  std::string bestBy = "min:loss";
  int64_t patience = 0;       ///< evaluations that may be no better; 0: any
  std::string exportAverages; ///< the same, of moving averages
  std::string metrics;        ///< JSON lines
  std::string outputFolder;
  std::string initializer;
  std::string communication = "auto"; ///< auto, nccl or staged
  std::string cudaLibraries;          ///< folders, separated by colons
  int32_t threads = 0;
  int64_t steps = 1;
  double epochs = 0; ///< of the data, instead of steps; 0: steps
  int64_t warmup = 0;
  bool verify = false, dryRun = false, benchmark = false, profile = false, json = false,
       quiet = false, noCapture = false;
  std::string trace;
  std::string cluster;         ///< to simulate; empty: run
  std::string profileDatabase; ///< times to believe in a simulation
  std::string profileFallback = "none";

  /// What --data or --eval-data was given, in messages.
  static std::string namesOf(const std::vector<std::string> &data);
};

/// Parses the command line. Returns -1 to go on, else the exit code (0 after --help and --version).
int parseCommandLine(int argc, char **argv, RunOptions &options);

} // namespace autopar::tools

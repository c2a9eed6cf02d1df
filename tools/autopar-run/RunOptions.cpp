// SPDX-License-Identifier: Apache-2.0
// The command line of autopar-run.
#include "RunOptions.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>

namespace autopar::tools {
namespace {

constexpr const char *kFooter = R"(
Examples:
  autopar-run compiled.bin --input input_ids=ids.npy --output-dir out       all ranks in this process
  mpirun -np 4 autopar-run compiled.bin --input input_ids=ids.npy --output-dir out
  torchrun --nproc_per_node 4 --no_python autopar-run compiled.bin --input x=x.npy --output-dir out
  autopar-run train.bin --data tokens.bin --fields "input_ids=tokens[:-1], labels=tokens[1:]" --steps 2000 \
      --checkpoint-dir ckpt --checkpoint-every 200 --metrics metrics.jsonl   train, or go on where it stopped
  autopar-run train.bin --data tokens.bin --fields "..." --steps 2000 --eval-data held-out.bin --eval-every 100
  autopar-run train.bin --data "shards/*.bin" --fields "..." --epochs 1 --eval-data held-out.bin --eval-every 100 \
      --export-best best.safetensors --patience 5                      the weights of the best evaluation
  autopar-run train.bin --data synthetic --steps 100 --init "*.bias=zeros, *ln*.weight=ones, *=normal(0.02), seed=7"
  autopar-run train.bin --checkpoint-dir ckpt --steps 0 --eval-data held-out.bin --fields "..."
  autopar-run train.bin --checkpoint-dir ckpt --steps 0 --export weights.safetensors
  autopar-run --verify compiled.bin                                          check every byte, run nothing
  autopar-run --dry-run compiled.bin                                         memory per rank, run nothing
  autopar-run compiled.bin --input x=random --benchmark --steps 20           one JSON line with step times
  autopar-run compiled.bin --simulate presets:h100x8 --trace t.json          predict a step on another machine

compiled.bin holds machine code: run only files that you trust. Exit codes: docs/ExitCodes.md.)";

/// What goes with --simulate: it has no data, and one process simulates all ranks.
constexpr const char *kSimulates[] = {"artifact", "--simulate",         "--steps",
                                      "--trace",  "--profile",          "--json",
                                      "--quiet",  "--profile-database", "--profile-fallback"};

/// What is run, and what it reads.
void addData(CLI::App &app, RunOptions &options) {
  app.add_option("artifact", options.artifact, "the compiled.bin");
  app.add_option("--input,-i", options.inputs,
                 "name=file.npy, the flag once for every input of the program; name=zeros, "
                 "name=ones and name=random "
                 "make one up")
      ->option_text("name=file.npy (repeated)")
      ->allow_extra_args(false);
  app.add_option(
         "--data", options.data,
         "a new batch for every step: raw tokens (any ending), .npy, .npz, or "
         "\"synthetic(vocab=N)\"; several files by a pattern in quotes, \"shards/*.bin\", or "
         "the flag once for each")
      ->option_text("FILE")
      ->allow_extra_args(false);
  app.add_option("--fields", options.fields,
                 "which array of --data feeds which input: \"input_ids=tokens[:-1], "
                 "labels=tokens[1:]\"; default: arrays named like inputs");
  app.add_option("--token-type", options.tokenType, "type of raw tokens")
      ->check(CLI::IsMember({"u16", "u32"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the order of samples")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  app.add_flag("--in-order", options.inOrder,
               "take the samples as they lie in the file, as programs that keep no state do");
  app.add_option("--eval-data", options.evalData,
                 "a file as for --data: the loss of its samples, in their order, becomes "
                 "eval_loss; with --steps 0 "
                 "that of the checkpoint")
      ->option_text("FILE")
      ->allow_extra_args(false);
  app.add_option(
         "--eval-every", options.evalEvery,
         "steps between evaluations (default: with every checkpoint); one at the end in any "
         "case")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--eval-steps", options.evalSteps,
                 "batches per evaluation (default: all samples of the file)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

/// What lasts from step to step, and what is written.
void addTraining(CLI::App &app, RunOptions &options) {
  app.add_option("--on-nan", options.onNan,
                 "a step whose loss is NaN or infinite changes nothing; stop: end the run and name "
                 "the first bad tensor; skip: go on with the next batch")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  app.add_option("--checkpoint-dir", options.checkpointFolder,
                 "keep checkpoints here; the run goes on from the newest one (--resume)");
  app.add_option("--checkpoint-every", options.checkpointEvery,
                 "steps between checkpoints; one is written at the end in any case")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--keep-checkpoints", options.keptCheckpoints,
                 "remove all but the newest N once a new one is written (default: keep all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option(
         "--resume", options.resume,
         "auto: the newest whole checkpoint, or a new start when there is none; none: a new "
         "start; or a step-<N> folder, its path or its name in --checkpoint-dir")
      ->capture_default_str();
  app.add_option("--export", options.exportFile,
                 "write the trained parameters to this .safetensors file at the end; with "
                 "--steps 0: those of the checkpoint, or where they start without one");
  app.add_option("--export-ema", options.exportAverages,
                 "the same of their moving averages, which an optimizer with ema=0.999 keeps");
  app.add_option("--export-best", options.exportBest,
                 "the same after the evaluation of --eval-data that was best");
  app.add_option("--best-by", options.bestBy,
                 "what --export-best goes by: min:loss, or max: or min: and a metric that the "
                 "program was compiled with, as in max:accuracy")
      ->capture_default_str();
  app.add_option("--patience", options.patience,
                 "with --export-best: stop once so many evaluations were no better than the best")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--metrics", options.metrics, "append one JSON line per step to this file");
  app.add_option(
      "--output-dir,-o", options.outputFolder,
      "write each output to <name>.npy in this folder: of the last step, or, with --data of "
      "a program that keeps no state, of all samples in their order");
  app.add_option("--init", options.initializer,
                 "where parameters start, if not from the model: \"*.bias=zeros, *=normal(0.02), "
                 "seed=7\" by name pattern, or weights.safetensors; a checkpoint wins");
}

/// How steps run, and how many.
void addExecution(CLI::App &app, RunOptions &options) {
  app.add_option("--threads", options.threads, "threads per rank (default: cores divided by ranks)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--cuda-libraries", options.cudaLibraries,
                 "folders to look for libcuda, cuBLASLt and NCCL in, separated by colons, before "
                 "those of AUTOPAR_CUDA_LIBRARIES and of the system");
  app.add_option(
         "--communication", options.communication,
         "between GPUs: by NCCL, staged through memory of the host, or (auto) by NCCL where "
         "every rank has a GPU of its own")
      ->check(CLI::IsMember({"auto", "nccl", "staged"}))
      ->capture_default_str();
  app.add_flag("--no-capture", options.noCapture,
               "on GPUs, give every instruction of a step on its own instead of all as one CUDA "
               "graph");
  app.add_option("--steps", options.steps, "run this many steps; with checkpoints: up to this step")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--epochs", options.epochs,
                 "run as many steps as read each sample of --data this often: 3, or 0.5")
      ->check(CLI::PositiveNumber)
      ->excludes("--steps");
  app.add_option("--warmup", options.warmup, "steps before the measured ones")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
}

/// What is done instead of running or beside it, and what is told.
void addModes(CLI::App &app, RunOptions &options) {
  app.add_flag("--verify", options.verify,
               "check digests and structure of the artifact and its weights, run nothing");
  app.add_flag("--dry-run", options.dryRun,
               "print memory per rank, inputs and outputs, run nothing");
  app.add_option(
      "--simulate", options.cluster,
      "run nothing: predict the time of a step on this cluster (a file, or presets:h100x8x2) by "
      "executing all ranks in virtual time; docs/Simulation.md");
  app.add_option("--profile-database", options.profileDatabase,
                 "with --simulate: times of instructions and collectives that autopar-profile "
                 "measured; docs/ProfileDatabase.md");
  app.add_option("--profile-fallback", options.profileFallback,
                 "what holes of the profile database are filled with: nothing (they are refused), "
                 "or the formulas of the cost model")
      ->check(CLI::IsMember({"none", "analytical"}));
  app.add_flag("--benchmark", options.benchmark, "print one JSON line with the time of every step");
  app.add_flag("--profile", options.profile,
               "print the time of every op; on GPUs by their own clock");
  app.add_option(
      "--trace", options.trace,
      "write a Chrome/Perfetto trace of all ranks: one process per rank, one row per queue");
  app.add_flag("--json", options.json, "print results as JSON on stdout");
  app.add_flag("--quiet,-q", options.quiet, "no progress line, no remarks");
}

/// Whether what was given goes together; says what does not.
bool goesTogether(const CLI::App &app, const RunOptions &options) {
  if (options.artifact.empty()) {
    std::cerr << "autopar-run: which compiled.bin? Run with --help for more information.\n";
    return false;
  }
  if (options.cluster.empty() &&
      app.count("--profile-database") + app.count("--profile-fallback") > 0) {
    std::cerr << "autopar-run: --profile-database and --profile-fallback go with --simulate; a "
                 "program that runs takes its own time\n";
    return false;
  }
  if (options.verify && options.dryRun) {
    std::cerr << "autopar-run: --verify and --dry-run exclude each other: each prints something "
                 "else of the artifact\n";
    return false;
  }
  if (options.profileDatabase.empty() && app.count("--profile-fallback") > 0) {
    std::cerr << "autopar-run: --profile-fallback says what fills holes of --profile-database; "
                 "give that too, or leave it out\n";
    return false;
  }
  for (const CLI::Option *option : app.get_options())
    if (!options.cluster.empty() && option->count() > 0 &&
        std::find(std::begin(kSimulates), std::end(kSimulates), option->get_name()) ==
            std::end(kSimulates)) {
      std::cerr << "autopar-run: " << option->get_name()
                << " does not go with --simulate, which has no data and runs all ranks in one "
                   "process; leave it out\n";
      return false;
    }
  return true;
}

} // namespace

int parseCommandLine(int argc, char **argv, RunOptions &options) {
  CLI::App app{"Runs a compiled.bin: all ranks in this process, or one rank under mpirun, srun or "
               "torchrun."};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("autopar-run " AUTOPAR_VERSION));
  addData(app, options);
  addTraining(app, options);
  addExecution(app, options);
  addModes(app, options);
  addLaunchOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // Checked here, after unknown flags were named.
  return goesTogether(app, options) ? -1 : 2;
}

std::string RunOptions::namesOf(const std::vector<std::string> &data) {
  std::string all;
  for (const std::string &name : data)
    all += (all.empty() ? "" : " ") + name;
  return all;
}

} // namespace autopar::tools

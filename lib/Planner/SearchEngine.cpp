// SPDX-License-Identifier: Apache-2.0
// The registry of engines and what all engines share.
#include "autopar/Planner/SearchEngine.h"

#include <algorithm>
#include <mutex>

#include "Engines.h"

namespace autopar {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<SearchEngine>> engines;

  Registry() {
    engines.push_back(planner::makeAutoEngine());
    engines.push_back(planner::makeOwnEngine());
    if (std::unique_ptr<SearchEngine> exact = planner::makeExactEngine())
      engines.push_back(std::move(exact));
  }
  const SearchEngine *find(std::string_view engineName) const {
    for (const std::unique_ptr<SearchEngine> &engine : engines)
      if (engine->name() == engineName)
        return engine.get();
    return nullptr;
  }
};

Registry &registry() {
  static Registry instance;
  return instance;
}

} // namespace

std::string_view name(StopReason reason) {
  switch (reason) {
  case StopReason::Optimal:
    return "optimal";
  case StopReason::WorkBudget:
    return "work budget";
  case StopReason::TimeGuard:
    return "time guard";
  case StopReason::Converged:
    return "converged";
  }
  return "unknown";
}

double Solution::gap() const {
  return timeUs > 0 ? std::max(0.0, (timeUs - lowerBoundUs) / timeUs) : 0.0;
}

std::vector<std::string> searchEngineNames() {
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const std::unique_ptr<SearchEngine> &engine : registry().engines)
    names.emplace_back(engine->name());
  return names;
}

Result<const SearchEngine *> findSearchEngine(std::string_view engineName) {
  {
    std::lock_guard lock(registry().mutex);
    if (const SearchEngine *engine = registry().find(engineName))
      return engine;
  }
  std::string known;
  for (const std::string &one : searchEngineNames())
    known += (known.empty() ? "" : ", ") + one;
  return Status::badInput("unknown search engine '" + std::string(engineName) +
                          "'; engines here: " + known);
}

Status registerSearchEngine(std::unique_ptr<SearchEngine> engine) {
  std::lock_guard lock(registry().mutex);
  if (registry().find(engine->name()))
    return Status::badInput("search engine '" + std::string(engine->name()) +
                            "' is already registered");
  registry().engines.push_back(std::move(engine));
  return Status::ok();
}

} // namespace autopar

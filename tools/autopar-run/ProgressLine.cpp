// SPDX-License-Identifier: Apache-2.0
// The progress line of autopar-run.
#include "ProgressLine.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace autopar::tools {

/// "1:02:03", "2:03" or "3.1 s".
static std::string duration(double seconds) {
  char text[64];
  auto whole = static_cast<long long>(seconds);
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  else if (whole >= 60)
    std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  return text;
}

ProgressLine::ProgressLine(bool isWanted, int64_t total)
    : isWanted(isWanted), isWatched(isatty(STDERR_FILENO)), hasColor(!std::getenv("NO_COLOR")),
      total(total) {}

ProgressLine::~ProgressLine() {
  if (isWanted && isWatched)
    std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::step(int64_t done, const std::string &metrics, double ms,
                        const std::string &rate) {
  meanMs = meanMs == 0 ? ms : 0.9 * meanMs + 0.1 * ms;
  if (!isWanted || (!isWatched && (done == total || !pace.isDue())))
    return;
  bool isBold = isWatched && hasColor;
  std::fprintf(stderr, "%s%sstep %lld/%lld%s",
               isWatched ? "\r\033[K" : "autopar-run: ", isBold ? "\033[1m" : "",
               static_cast<long long>(done), static_cast<long long>(total),
               isBold ? "\033[0m" : "");
  if (!metrics.empty())
    std::fprintf(stderr, "  %s", metrics.c_str());
  if (!rate.empty())
    std::fprintf(stderr, "  %s", rate.c_str());
  std::fprintf(stderr, "  %.1f ms/step  %s left%s", ms,
               duration(meanMs * double(total - done) / 1e3).c_str(), isWatched ? "" : "\n");
}

} // namespace autopar::tools

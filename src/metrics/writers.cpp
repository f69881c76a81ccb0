// SPDX-License-Identifier: Apache-2.0
#include "metrics/writers.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "metrics/lines.hpp"

namespace cambium::metrics {

namespace fs = std::filesystem;

MetricsWriter::MetricsWriter(fs::path run, int attempt)
    : path_(run / "metrics.jsonl"), attempt_(attempt) {
  const std::string torn = cut_torn_line(path_);
  if (!torn.empty()) {
    append_line(make_attempt_folder(run, attempt) / "metrics.jsonl", torn, Durable::no);
  }
}

void MetricsWriter::write(const Fields& fields) {
  append_line(path_, to_json(Fields{{"attempt", attempt_}}.add_all(fields)), Durable::no);
}

dim_t MetricsWriter::cut_after(dim_t step,
                               const fs::path& attempt_folder,
                               const std::set<std::string>& starting) {
  std::string kept;
  std::string moved;
  dim_t count = 0;
  for (const std::string& line : read_lines(path_)) {
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    const bool known = row.is_object();
    const bool has_step = known && row.contains("step") && row["step"].is_number();
    const double at = has_step ? row["step"].get<double>() : 0;
    const bool starts_anew = has_step && row.contains("phase") && row["phase"].is_string() &&
                             starting.contains(row["phase"].get<std::string>());
    const bool behind = has_step && (at > step || (at == step && starts_anew));
    std::string& target = known && !behind ? kept : moved;
    target += line;
    target += '\n';
    count += &target == &moved ? 1 : 0;
  }
  if (count == 0) {
    return 0;
  }
  std::error_code ignored;
  fs::create_directories(attempt_folder, ignored);
  const fs::path aside = attempt_folder / "metrics.jsonl";
  write_file_atomically(aside, (fs::exists(aside) ? read_file(aside) : std::string()) + moved);
  write_file_atomically(path_, kept);
  return count;
}

EventWriter::EventWriter(fs::path run, int attempt)
    : path_(run / "events.jsonl"), attempt_(attempt) {
  const std::string torn = cut_torn_line(path_);
  if (!torn.empty()) {
    append_line(make_attempt_folder(run, attempt) / "events.jsonl", torn, Durable::no);
  }
}

void EventWriter::write(std::string_view event, const Fields& fields) {
  const Fields head{{"time", utc_now()}, {"attempt", attempt_}, {"event", event}};
  append_line(path_, to_json(Fields(head).add_all(fields)), Durable::no);
}

fs::path make_attempt_folder(const fs::path& run, int attempt) {
  const fs::path folder = run / fmt::format("attempt-{}", attempt);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(Code::storage,
                fmt::format("{}: cannot create: {}", folder.string(), error.message()));
  }
  return folder;
}

int next_attempt(const fs::path& run) {
  int highest = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, ignored)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "attempt-";
    int number = 0;
    if (name.starts_with(kPrefix)) {
      const char* begin = name.data() + kPrefix.size();
      const char* end = name.data() + name.size();
      const auto [rest, error] = std::from_chars(begin, end, number);
      if (error == std::errc() && rest == end) {
        highest = std::max(highest, number);
      }
    }
  }
  return highest + 1;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(now - seconds);
  const std::time_t time = std::chrono::system_clock::to_time_t(seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(time), rest.count());
}

}  // namespace cambium::metrics

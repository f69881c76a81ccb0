// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "metrics/lines.hpp"
#include "metrics/writers.hpp"

namespace cambium::metrics {
namespace {

template <typename T>
T field(const JournalEntry& entry,
        std::string_view key,
        bool (nlohmann::json::*is_type)() const noexcept) {
  const nlohmann::json row = nlohmann::json::parse(entry.json);
  const auto found = row.find(std::string(key));
  if (found == row.end() || !((*found).*is_type)()) {
    throw Error(
        Code::bad_input,
        fmt::format(
            "journal.jsonl: decision '{}' at step {}: field '{}' is absent or of another type",
            entry.decision,
            entry.step,
            key));
  }
  return found->get<T>();
}

}  // namespace

std::string JournalEntry::text(std::string_view key) const {
  return field<std::string>(*this, key, &nlohmann::json::is_string);
}

double JournalEntry::number(std::string_view key) const {
  return field<double>(*this, key, &nlohmann::json::is_number);
}

dim_t JournalEntry::integer(std::string_view key) const {
  return field<dim_t>(*this, key, &nlohmann::json::is_number_integer);
}

bool JournalEntry::has(std::string_view key) const {
  return nlohmann::json::parse(json).contains(std::string(key));
}

Journal::Journal(std::filesystem::path run, int attempt)
    : path_(run / "journal.jsonl"), attempt_(attempt) {
  cut_torn_line(path_);
}

void Journal::write(dim_t step, std::string_view decision, const Fields& fields) {
  const bool is_new = !std::filesystem::exists(path_);
  const Fields head{{"attempt", attempt_}, {"step", step}, {"decision", decision}};
  append_line(path_, to_json(Fields(head).add_all(fields)), Durable::yes);
  if (is_new) {
    sync_folder(path_.parent_path());
  }
}

std::vector<JournalEntry> Journal::read(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "journal.jsonl";
  if (!std::filesystem::exists(path)) {
    return {};
  }
  std::string content = read_file(path);
  content.resize(content.rfind('\n') + 1);  // npos + 1 == 0
  std::vector<JournalEntry> entries;
  std::size_t begin = 0;
  for (dim_t number = 1; begin < content.size(); ++number) {
    const std::size_t end = content.find('\n', begin);
    JournalEntry entry{.json = content.substr(begin, end - begin)};
    begin = end + 1;
    const nlohmann::json row = nlohmann::json::parse(entry.json, nullptr, false);
    const bool is_decision = row.is_object() && row.contains("step") &&
                             row["step"].is_number_integer() && row.contains("decision") &&
                             row["decision"].is_string();
    if (!is_decision) {
      throw Error(Code::bad_input,
                  fmt::format("{}:{}: expected a decision with its step, got '{}'",
                              path.string(),
                              number,
                              entry.json.substr(0, 80)));
    }
    entry.step = row["step"].get<dim_t>();
    entry.decision = row["decision"].get<std::string>();
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace cambium::metrics

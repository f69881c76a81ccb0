// config/words.hpp — the words of each closed choice, and the known words that this version
// refuses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "config/campaign.hpp"
#include "config/families.hpp"

namespace cambium::config {

template <typename E>
struct Word {
  std::string_view text;
  E value;
};

// A word that people will try, and why it does not work.
struct RefusedWord {
  std::string_view text;
  std::string_view why;
};

template <typename E>
struct Words;

template <>
struct Words<Precision> {
  static constexpr std::array all{
      Word{"fp32", Precision::fp32}, Word{"bf16", Precision::bf16}, Word{"fp64", Precision::fp64}};
  static constexpr std::array refused{
      RefusedWord{"fp8", "this version runs fp32, bf16, and fp64 on the device reference"}};
};

template <>
struct Words<Profile> {
  static constexpr std::array all{Word{"portable", Profile::portable}};
  static constexpr std::array refused{
      RefusedWord{"amx", "this version has the profile portable only"}};
};

template <>
struct Words<DeviceKind> {
  static constexpr std::array all{Word{"auto", DeviceKind::automatic},
                                  Word{"cpu", DeviceKind::cpu},
                                  Word{"reference", DeviceKind::reference},
                                  Word{"cuda", DeviceKind::cuda}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Isa> {
  static constexpr std::array all{
      Word{"auto", Isa::automatic}, Word{"avx2", Isa::avx2}, Word{"avx512", Isa::avx512}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Resume> {
  static constexpr std::array all{
      Word{"auto", Resume::automatic}, Word{"must", Resume::must}, Word{"never", Resume::never}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Family> {
  static constexpr auto all = [] {
    std::array<Word<Family>, kFamilies.size()> words{};
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = {kFamilies[i].name, kFamilies[i].family};
    }
    return words;
  }();
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<ScheduleKind> {
  static constexpr std::array all{Word{"1f1b", ScheduleKind::one_f_one_b},
                                  Word{"gpipe", ScheduleKind::gpipe},
                                  Word{"interleaved", ScheduleKind::interleaved}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Recompute> {
  static constexpr std::array all{Word{"none", Recompute::none},
                                  Word{"selective", Recompute::selective},
                                  Word{"full", Recompute::full}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Reduction> {
  static constexpr std::array all{Word{"exact", Reduction::exact}, Word{"fast", Reduction::fast}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<Wire> {
  static constexpr std::array all{Word{"fp32", Wire::fp32}};
  static constexpr std::array refused{RefusedWord{"bf16", "this version sends fp32 only"}};
};

template <>
struct Words<OptimizerKind> {
  static constexpr std::array all{Word{"adamw", OptimizerKind::adamw}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<StateType> {
  static constexpr std::array all{Word{"fp32", StateType::fp32}};
  static constexpr std::array refused{
      RefusedWord{"int8", "this version keeps optimizer state in fp32"}};
};

template <>
struct Words<LearningRateKind> {
  static constexpr std::array all{Word{"constant", LearningRateKind::constant},
                                  Word{"linear", LearningRateKind::linear},
                                  Word{"cosine", LearningRateKind::cosine},
                                  Word{"wsd", LearningRateKind::wsd}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<GateKind> {
  static constexpr std::array all{Word{"vector", GateKind::vector},
                                  Word{"scalar", GateKind::scalar}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<OnFailure> {
  static constexpr std::array all{Word{"rollback", OnFailure::rollback},
                                  Word{"stop", OnFailure::stop}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<ThresholdKind> {
  static constexpr std::array all{Word{"learned", ThresholdKind::learned},
                                  Word{"fixed", ThresholdKind::fixed},
                                  Word{"off", ThresholdKind::off}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <>
struct Words<EvaluateTask> {
  static constexpr std::array all{Word{"loss", EvaluateTask::loss},
                                  Word{"accuracy", EvaluateTask::accuracy}};
  static constexpr std::array<RefusedWord, 0> refused{};
};

template <typename E>
std::string_view word_of(E value) {
  for (const Word<E>& word : Words<E>::all) {
    if (word.value == value) {
      return word.text;
    }
  }
  return "?";
}

}  // namespace cambium::config

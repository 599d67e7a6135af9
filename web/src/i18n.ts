import i18next from "i18next";
import { useEffect, useState } from "react";
import { initReactI18next, useTranslation } from "react-i18next";

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

const KEPT = "rota-language";
const CATALOGS: Record<Language, () => Promise<{ default: object }>> = {
  en: () => import("./locales/en.json"),
  "zh-CN": () => import("./locales/zh-CN.json"),
};

function preferred(): Language {
  const kept = window.localStorage.getItem(KEPT);
  if (kept === "en" || kept === "zh-CN") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

export async function startI18n(): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: undefined,
    fallbackLng: false,
    resources: {},
    interpolation: { escapeValue: false }, // React escapes
    returnNull: false,
  });
  await speak(preferred());
}

export async function speak(language: Language): Promise<void> {
  if (!i18next.hasResourceBundle(language, "translation")) {
    i18next.addResourceBundle(language, "translation", (await CATALOGS[language]()).default);
  }
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
  window.localStorage.setItem(KEPT, language);
}

export function language(): Language {
  return i18next.language === "zh-CN" ? "zh-CN" : "en";
}

type Words = Readonly<Record<string, string>>;

/** Words that the server says in English, in the language of the visitor; empty where that is English. */
export function useServerWords(load: () => Promise<{ default: Words }>): Words {
  const { i18n } = useTranslation();
  const [words, setWords] = useState<Words>({});
  useEffect(() => {
    if (i18n.language === "en") setWords({});
    else void load().then((found) => setWords(found.default));
  }, [i18n.language, load]);
  return words;
}

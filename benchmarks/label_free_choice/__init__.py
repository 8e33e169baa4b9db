"""Study: can the best layers and transform be chosen from unlabelled text alone?"""
